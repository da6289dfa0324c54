"""What hostile clients, broken files and a failing system may do, as black-box cases; docs/develop/reliability.md lists them."""
