"""Whether a problem keeps its contract: laws, checks, and admission at the door. Read `checks` first."""
