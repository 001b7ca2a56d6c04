"""COSMIC: real-time event channels on CAN (seed 001, 2.3.3; spec/cosmic.md).

    from vicinal.cosmic.node import Node                            one for each controller; a shell drives it
    from vicinal.cosmic.channels import SrtChannel, NrtChannel      by deadline, and with what is left
    from vicinal.cosmic.hrt import HrtChannel                       in reserved slots
    from vicinal.cosmic.calendar import Calendar                    which reserves them, or says what does not fit
    from vicinal.cosmic.faults import Recovery, Budgets             bus-off, and nodes that babble

Time is integer microseconds here: a bit at 1 Mbit/s. Nothing is loaded here: a device imports what it uses.
"""
