"""The built-in problems, written as a user would write one: only public names of `agf`, never one another."""
