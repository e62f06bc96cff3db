"""The steps of the counting pipelines, one file each, in the order in which a tap passes through them.

`read` → `validate` → `touch` → `dedup` → `changes` → `count` → `store`, and `dead_letters` beside them.
"""
