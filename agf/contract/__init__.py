"""What a problem must, may and does provide, and who is to blame when it does not. Read `problem` first."""
