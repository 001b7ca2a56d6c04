"""Traffic as tables (facts of DESIGN 7): what vehicles said, and what follows from it.

places      where on the road network a position is, in which area, under which limit
reports     events to positions; what is late, doubtful or twice goes to tables of its own, with the reason
tables      segment speeds, congestion, stopped vehicles, accidents, trips, offences: each one function of positions
store       folders of Parquet that are changed by commits: all tables of a batch, or none
run         the same from a log of before and from one that grows
"""
