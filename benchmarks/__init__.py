"""What Treering costs and how well it finds: `python -m benchmarks [NAME …]`.

Each benchmark is a module with `measure(plan)`, which gives figures beside their targets. CPU time is given
beside wall time, because the machine may be doing other things; what starts up or is measured for its memory runs
in a process of its own.
"""
