"""The broker overlay: SIENA's content-based routing with multiscoping (seeds 002 and 003; DESIGN 4 and 6).

topology   where is broker B: links and memberships as all brokers know them; the way from a scope to a scope
records    what a broker says of itself, flooded to all: neighbours, scopes, what its producers advertise
interest   which brokers care: subscriptions by origin, pruned by covering, kept where a producer may match them
streams    packets from broker to broker, in order and once, whatever the links between them do
forwarding the packets themselves, one step at a time, within their scopes
routing    where an event goes: to which brokers, along which scopes, in what form
holding    what publishing policies hold back, and let go; loads: what least-loaded scopes go by
rights     who the clients are and what they may; administration: what administrators say, flooded to all; governed:
           what comes of it
catchup    durable subscriptions: what a broker has missed comes again from the logs of others
broker     the state machine that puts them together; telling, yielding, delivering, quick and publishing are its parts
messages   what brokers and clients say to each other, as bytes; messages_read reads it
connection one connection: hello, heartbeats, credit
"""
