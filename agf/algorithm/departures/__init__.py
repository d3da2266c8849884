"""What the engine does beyond the letter of [AGF] Algorithm 1, one departure a module, each with its reason."""
