"""What each part of rlx promises, and the tests that hold it: one module for each part.

A module holds tables: mappings of a sentence that promises something to the names of its tests,
`module:function` below `tests`, several side by side. `*` after the colon is every test of the
module. What is a matter of speed alone has rows in `bench` instead: `bench:name`.
"""
