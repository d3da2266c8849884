"""Problems built from samples: two-layer networks by name, and neurons written in torch. Read `two_layer` first."""
