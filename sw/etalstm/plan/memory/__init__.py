"""Where everything lies: tiles, arrays, windows.

``tiling`` maps dimensions onto channels and lanes, ``arrays`` and ``allocation`` give a layer its arrays,
``memory_map`` is the map itself and its addresses, ``stored`` has the intermediates of the backward pass,
``network_map`` the whole network.
"""
