"""The reliability plan as black-box cases, a module for each of its letters; docs/reliability.md lists all of them."""
