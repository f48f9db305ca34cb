"""AXI ports: ``axi`` has signatures, ``bursts``, ``reader``, ``writer`` use, ``arbiter`` and ``merge`` divide them."""
