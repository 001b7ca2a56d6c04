"""Traffic as tables (facts of DESIGN 7): what vehicles said, and what follows from it.

places      where on the road network a position is, in which area, under which limit
reports     events to positions; what is late, doubtful or twice goes to tables of its own, with the reason
tables      segment speeds, congestion, stopped vehicles, accidents, trips: each one function of positions
offences    stretches over the limit in force, by the office of traffic control's own core; rules: the limits for it
store       folders of Parquet that are changed by commits: all tables of a batch, or none
reading     tables as of one commit, for who reads while they are written
run         the same from a log of before and from one that grows
"""
