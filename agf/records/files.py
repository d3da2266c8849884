"""Run files: written atomically, versioned, loaded without executing anything.

A run file is a zip of npy arrays (numpy's npz, no pickles) with one more member, `header.json`. The suffix is the
user's choice; `.npz` is customary.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import platform
import struct
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from agf.errors import FileError, explain
from agf.records import schema

FORMAT = "agf-run"
#: Version of run files. Limit: a file of a later one is refused.
VERSION = 1
#: Bytes of a header at most. Limit: it is text; anything larger is refused.
_MAX_HEADER = 64 * 2**20
#: Bytes, and times its size, to which an archive unpacks at most. Limit: one beyond both holds nothing but zeros or
#: means harm, and is refused.
_LARGE, _PACKED = 2**30, 200
#: What names with these suffixes are taken for; a file of another format does not get one.
_FORMATS = {
    ".npz": "an npz archive", ".npy": "an array", ".csv": "a table", ".tsv": "a table", ".parquet": "a table",
    ".json": "JSON", ".html": "a page", ".htm": "a page", ".py": "Python", ".txt": "text", ".pdf": "a picture",
    ".svg": "a picture", ".png": "a picture", ".jpg": "a picture",
}  # fmt: skip
#: Bytes of an array that are tried before it is packed. Cost: of trying, a millisecond.
_SAMPLE = 2**16
#: What zipfile and numpy raise on damaged, encrypted or hostile archives, besides ValueError.
DAMAGE: tuple[type[BaseException], ...] = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, MemoryError, struct.error, SyntaxError, TypeError,
    tokenize.TokenError,
)  # fmt: skip
with contextlib.suppress(ImportError):  # a module that some builds of Python lack, and then zipfile does
    import lzma

    DAMAGE = (*DAMAGE, lzma.LZMAError)
#: Most bytes of the name of a file, and of its whole path. Limit: of the usual file systems, and of Linux.
_NAME, _PATH = 255, 4095
#: The same with what a reader of arrays raises.
UNREADABLE: tuple[type[BaseException], ...] = (*DAMAGE, ValueError)


@contextlib.contextmanager
def atomic(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a file that appears under `path` complete or not at all. Raises FileError when it cannot be written."""
    check_writable(path, then="Nothing was written.")
    target = Path(os.path.realpath(path))  # what a link points to is written, and the link stays
    _tidy(target.parent)
    name = None
    try:
        with tempfile.NamedTemporaryFile(
            mode,
            dir=target.parent,
            prefix=_part(target.name),
            suffix=".part",
            delete=False,
            encoding=None if "b" in mode else "utf-8",
            errors=None if "b" in mode else "backslashreplace",  # undecodable bytes in names of files
        ) as handle:
            name = handle.name
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)  # temporary files are private; results are as any file the user writes
        os.replace(name, target)
        name = None
    except OSError as error:
        raise FileError(
            explain(
                f"cannot write {near(path)!r} ({error.strerror or error}).",
                remedy="Nothing was written; check that the folder exists, may be written and has space.",
            )
        ) from None
    finally:
        if name is not None:
            with contextlib.suppress(OSError):
                os.unlink(name)


def near(path: str | os.PathLike[str]) -> str:
    """A path as people write it: from the working folder where it is inside."""
    try:
        here = os.getcwd() + os.sep
    except FileNotFoundError:  # removed under our feet
        return str(path)
    return str(path).removeprefix(here)


def _part(name: str) -> str:
    """How an unfinished file begins: short whatever the name, and telling which process of which machine writes it."""
    return f".agf-{zlib.crc32(name.encode(errors='surrogateescape')):08x}-{_machine()}-{os.getpid()}-"


@functools.cache
def _machine() -> str:
    """Where process numbers mean the same: the machine, and the space of its processes that a container has."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{zlib.crc32((platform.node() + space).encode()):08x}"


@functools.lru_cache(maxsize=64)
def _tidy(folder: Path) -> None:
    """Remove what killed processes left unfinished in a folder, once a process: a folder may hold a million files."""
    with contextlib.suppress(OSError):
        remove_parts(folder)


def remove_parts(folder: Path) -> None:
    """Remove the unfinished files that processes of this machine left in a folder when they were killed."""
    for path in folder.glob(f".agf-*-{_machine()}-*-*.part"):
        process = path.name.split("-")[3]
        if process.isdigit() and not _alive(int(process)):
            path.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def check_run(path: str | os.PathLike[str], then: str = "Nothing was computed.") -> None:
    """Refuse a path that cannot be written, or is no name for a run file, as `check_format`. Raises FileError."""
    check_writable(path, then)
    check_format(path, ".npz", "agf show RUN --csv FILE, or `to_csv`, writes a table of it; --plot, or `plot`, draws.")


def check_format(path: str | os.PathLike[str], suffix: str, remedy: str = "") -> None:
    """Refuse a name that says another format than that of `suffix`; one that says none is as good. Raises FileError."""
    named = Path(path).suffix.lower()
    if named in _FORMATS and _FORMATS[named] != _FORMATS[suffix]:
        words = f"{near(path)!r} would hold {_FORMATS[suffix]}, and is named as {_FORMATS[named]}."
        raise FileError(explain(words, expected=f"a name that ends in {suffix}", remedy=remedy))


def check_writable(path: str | os.PathLike[str], then: str = "Nothing was computed.") -> None:
    """Refuse a path that cannot be written before a long computation starts. Raises FileError."""
    if not isinstance(path, str | os.PathLike):
        raise FileError(explain("this is no path of a file.", found=f"{type(path).__name__} {path!r:.60}", remedy=then))
    if why := _no_name(path):
        raise FileError(explain(f"cannot write {str(path)!r}: {why}.", remedy=then))
    target = Path(os.path.realpath(path))
    if len(os.fsencode(target.name)) > _NAME or len(os.fsencode(target)) > _PATH:
        why = f"a name has up to {_NAME} bytes, and with its folders {_PATH:,}"
    elif not str(path):
        why = "the name is empty"
    elif str(path) == "-":
        why = "- is not taken for standard output, on which --json prints"
    elif target.is_symlink():
        why = "it is a link that leads back to itself"
    elif target.is_dir():
        why = "it is a folder"
    elif target.exists() and not target.is_file():
        why = "it is a device or a pipe, not an ordinary file"  # replacing it would destroy it
    elif not target.parent.is_dir():
        why = "its folder does not exist"
    elif not os.access(target.parent, os.W_OK):
        why = "its folder may not be written"
    else:
        return
    raise FileError(explain(f"cannot write {near(path)!r}: {why}.", remedy=then))


def _no_name(path: str | os.PathLike[str]) -> str:
    """Why no file can have this name, "" where one can."""
    if "\0" in os.fsdecode(path):
        return "its name holds a null character"
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return "its name holds what is no letter"
    if os.fspath(path) and os.fsdecode(path)[-1:] in (os.sep, os.altsep):
        return "its name is that of a folder"
    return ""


def jsonable(value: Any) -> Any:
    """Plain JSON values; NaN and infinities become null and "inf"/"-inf", so that the document is strict JSON."""
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        kinds = set(map(type, value))
        if kinds <= {int, str, bool} or (kinds == {float} and all(map(math.isfinite, value))):
            return list(value)  # a list of a million neurons is no work
        return [jsonable(item) for item in value]
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist())
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        real = float(value)
        if math.isnan(real):
            return None
        return real if math.isfinite(real) else ("inf" if real > 0 else "-inf")
    if isinstance(value, Path):
        return str(value)
    return value


def typed(value: Any, kind: Any) -> Any:
    """A value of a header when it is of that type; TypeError, saying what was found, when it is not."""
    if not isinstance(value, kind):
        raise TypeError(f"found {value!r} in place of {kind}")
    return value


def check_distinct(output: str | os.PathLike[str] | None, inputs: Iterable[str | os.PathLike[str] | None]) -> None:
    """Refuse to write over a file that is read. Raises FileError."""
    if output is None or not os.path.exists(output):
        return
    for path in inputs:
        if path is not None and os.path.exists(path) and os.path.samefile(output, path):
            raise FileError(
                explain(f"{str(output)!r} would be written over, and it is read.", remedy="Give another output.")
            )


def from_json_float(value: Any) -> float:
    """Inverse of `jsonable` for one float."""
    return math.nan if value is None else float(value)


def write(path: str | os.PathLike[str], kind: str, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a run file. kind : "staircase", "trajectory", "comparison", ...; arrays : numbers, booleans or strings."""
    check_run(path, then="Nothing was written.")
    document = {"format": FORMAT, "version": VERSION, "kind": kind, **jsonable(header)}
    with atomic(path) as handle, _archive(handle) as archive:
        archive.writestr("header.json", json.dumps(document, allow_nan=False))
        for name, array in arrays.items():
            array = np.asarray(array)
            if array.dtype.hasobject:
                raise TypeError(f"array {name!r} holds Python objects")
            info = zipfile.ZipInfo(f"{name}.npy")
            info.compress_type = _packing(array)
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


@contextlib.contextmanager
def _archive(handle: IO[Any]) -> Iterator[zipfile.ZipFile]:
    """A new archive in an open file. Whatever is raised inside leaves it as it is: an archive that an interrupt finds
    in the middle of an entry cannot be closed, and would raise that instead."""
    archive = zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    try:
        yield archive
        archive.close()
    except BaseException:
        archive.fp = None
        raise


def _packing(array: np.ndarray) -> int:
    """How an array is stored: as it is where it is large and a sample from its middle does not shrink.

    Packing the digits of a flow takes seconds for each 30 MB and saves 4 %, and a run that is told to stop has two.
    """
    if array.nbytes <= 16 * _SAMPLE:
        return zipfile.ZIP_DEFLATED
    middle = array.size // 2
    sample = array.ravel()[middle : middle + _SAMPLE // array.itemsize].tobytes()
    return zipfile.ZIP_DEFLATED if 2 * len(zlib.compress(sample, 1)) < len(sample) else zipfile.ZIP_STORED


def read(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """Kind, header and arrays of a run file.

    Raises FileError, saying which: absent, not a run file, truncated, from a later version, holding pickles, or with a
    part that is missing or not what `schema` asks for.
    """
    shown = repr(str(path))

    def refuse(why: str, remedy: str = "") -> FileError:
        return FileError(explain(f"cannot read {shown}: {why}.", remedy=remedy))

    if not isinstance(path, str | os.PathLike):
        raise FileError(explain("this is no path of a file.", found=f"{type(path).__name__} {path!r:.60}"))
    if why := _no_name(path):
        raise refuse(why)
    if not Path(path).exists():
        raise refuse("there is no such file")
    if Path(path).is_dir():
        raise refuse("it is a folder", "Name one run file in it.")
    if not Path(path).is_file():
        raise refuse("it is a device or a pipe, not an ordinary file")
    try:
        with zipfile.ZipFile(path) as archive:
            try:
                info = archive.getinfo("header.json")
            except KeyError:
                raise refuse(*_not_ours(archive)) from None
            if info.file_size > _MAX_HEADER:
                raise refuse("its header is too large to be one of ours")
            try:
                header = json.loads(archive.read(info))
            except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
                raise refuse("its header is not JSON") from None
            if not isinstance(header, dict) or header.get("format") != FORMAT:
                raise refuse("it is not an agf run file", "Give a file written by agf -o.")
            version = header.get("version")
            if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= VERSION:
                raise refuse(
                    f"it is version {version!r}, and this agf reads up to version {VERSION}", "Upgrade agf to read it."
                )
            refuse_bomb(archive)
            arrays = {name: member(archive, info) for name, info in members(archive)}
            kind = str(header.get("kind", ""))
            schema.check(kind, header, arrays)
    except FileError:
        raise
    except schema.Wrong as error:
        raise refuse(f"a part is missing or of the wrong kind ({error})") from None
    except DAMAGE as error:
        if isinstance(error, zipfile.BadZipFile) and not zipfile.is_zipfile(path):
            raise refuse("it is damaged or not a run file", "Give a file written by agf -o.") from None
        raise refuse(f"it is damaged or not a run file ({error})") from None
    except ValueError as error:
        raise refuse(f"an array in it is damaged or not plain numbers ({error})") from None
    return kind, header, arrays


def _not_ours(archive: zipfile.ZipFile) -> tuple[str, str]:
    """What an archive without our header is, and what to do."""
    held = ", ".join(name for name, _ in members(archive)[:8])
    if held:
        return (
            f"it is not an agf run file, but holds arrays ({held})",
            "It may be data (--data) or weights (--init) of a command.",
        )
    return "it is not an agf run file (no header.json)", "Give a file written by agf -o."


@contextlib.contextmanager
def complete(path: object) -> Iterator[None]:
    """Where the parts of the run file at `path` are read. Raises FileError for one that is missing or of the wrong
    kind."""
    try:
        yield
    except FileError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise FileError(
            explain(f"cannot read {str(path)!r}: a part is missing or of the wrong kind ({error}).")
        ) from None


def members(archive: zipfile.ZipFile) -> list[tuple[str, zipfile.ZipInfo]]:
    """The arrays of an archive: name and entry."""
    return [(info.filename[: -len(".npy")], info) for info in archive.infolist() if info.filename.endswith(".npy")]


def refuse_bomb(archive: zipfile.ZipFile) -> None:
    """Raise ValueError when the entries of an archive unpack to more than the memory, or than numbers pack to.

    Nothing is unpacked for this, and no entry can unpack to more than its directory says.
    """
    packed = sum(info.compress_size for info in archive.infolist())
    total = sum(info.file_size for info in archive.infolist())
    there = memory()
    if total > there:
        raise ValueError(f"it unpacks to {total / 2**30:.1f} GiB, and there are {there / 2**30:.1f} GiB of memory")
    if total > _LARGE and total > _PACKED * packed:
        raise ValueError(f"its {packed / 2**20:.1f} MiB unpack to {total / 2**30:.1f} GiB, as no measured numbers do")


def memory() -> int:
    """Bytes of memory of the machine; 16 GiB where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**34


def member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """One array, when its header declares as many bytes as there are. Raises ValueError; pickles are not loaded."""
    with archive.open(info) as handle:
        version = np.lib.format.read_magic(handle)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = header(handle)
        declared, there = math.prod(shape) * dtype.itemsize, info.file_size - handle.tell()
        if declared != there and not dtype.hasobject:
            raise ValueError(f"array {info.filename!r} declares {declared} bytes, and there are {there}")
    with archive.open(info) as handle:
        return np.lib.format.read_array(handle, allow_pickle=False)


def array(arrays: dict[str, np.ndarray], name: str, path: object) -> np.ndarray:
    """One array of a run file. Raises FileError when it is missing."""
    try:
        return arrays[name]
    except KeyError:
        raise FileError(explain(f"cannot read {str(path)!r}: the array {name!r} is missing.")) from None
