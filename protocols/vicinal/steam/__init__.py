"""STEAM: proximity groups over BLE advertisements (seed 001, 2.3.1 and 6.3.2; spec/steam.md).

    from vicinal.steam.node import Node                 one for each place; a shell brings radios, position and time
    from vicinal.steam.frames import payloads           what is ours in an advertisement,
    from vicinal.steam.reading import read              and what it says, for those who only look

There is no infrastructure and no way back: who produces announces an area in beacons and repeats its events in
advertisements; who is interested, and inside, has joined. Time is integer milliseconds, positions are integer 1e-7
degrees, and what is drawn by chance is an argument. Nothing is authenticated yet: whoever has a radio can be heard.
Nothing is loaded here: a device imports what it uses.
"""
