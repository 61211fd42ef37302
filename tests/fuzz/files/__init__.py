"""A fuzzer of files: drawn by grammars, damaged, loaded, exported, compiled and run.

python -m tests.fuzz.files --minutes 60 --jobs 2     or --only BLOCK, for one block of files
"""
