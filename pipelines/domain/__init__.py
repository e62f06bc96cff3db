"""What a like counter means, in pure Python: the executable specification that the Flink plan is compared with.

Only the standard library is imported here. Functions take a state and return a new one; clocks and randomness come in
as arguments.
"""
