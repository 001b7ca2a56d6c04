"""Topic filters by the rules of MQTT 5.0, 4.7: + is one level, # the rest and the parent, neither starts with $."""


def matches(topic_filter: str, topic: str) -> bool:
    wanted, levels = topic_filter.split("/"), topic.split("/")
    assert all(level == "#" or "#" not in level for level in wanted)
    assert "#" not in wanted[:-1]
    assert all(level == "+" or "+" not in level for level in wanted)
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return False
    for at, level in enumerate(wanted):
        # sport/# also matches sport: levels may end where # begins.
        if level == "#":
            return True
        if at >= len(levels) or level not in ("+", levels[at]):
            return False
    return len(levels) == len(wanted)


def may_be_published(topic: str) -> bool:
    return topic != "" and not set(topic) & set("+#\0")
