"""The broker: an asyncio shell around the overlay engine of vicinal.siena (DESIGN 7).

config      what a broker is told: TOML, with errors that name file, table and key
address     tcp://, tls://, ws://, wss://
link        one connection on a socket; websocket: the same inside WebSocket
node        the engine and those connected to it
storage     what is acknowledged is on disk first; durable subscriptions
neighbours  links to other brokers, dialled again and again
status      what the broker counts, as JSON and for Prometheus; http serves it
server      all of it, from start to drain
client      the other side: connect, advertise, subscribe, publish
"""
