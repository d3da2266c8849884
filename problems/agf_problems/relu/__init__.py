"""ReLU networks ([AGF] section 6, [BF24], [Min23])."""
