"""How biased is this data, would a shortcut alone solve the task, does a model follow one."""
