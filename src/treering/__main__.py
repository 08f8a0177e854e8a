"""`python -m treering` is the command `treering`."""

from treering.edges.surfaces.cli import main

if __name__ == "__main__":
    main()
