"""How a user's functions are read: their source, what their names stand for, and what can be got at from them."""
