"""The census: can the oracle attached to each problem see what its injector breaks?

A static audit of a whole benchmark. Source text goes in, rows with places come out: nothing of the
benchmark is imported or run, and no cluster is needed. `survey` follows the problems, `judge`
applies rules that are data, `finders` look for known defects, `report` writes the result.
"""
