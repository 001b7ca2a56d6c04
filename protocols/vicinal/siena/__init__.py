"""The broker overlay: SIENA's content-based routing with multiscoping (seeds 002 and 003; DESIGN 4 and 6).

topology   where is broker B: links and memberships as all brokers know them; the way from a scope to a scope
records    what a broker says of itself, flooded to all: neighbours, scopes, what its producers advertise
interest   which brokers care: subscriptions by origin, pruned by covering, kept where a producer may match them
streams    packets from broker to broker, in order and once, whatever the links between them do
forwarding the packets themselves, one step at a time, within their scopes
broker     the state machine that puts them together
messages   what brokers and clients say to each other, as bytes; messages_read reads it
connection one connection: hello, heartbeats, credit
"""
