"""AXI ports: ``axi`` has signatures; ``bursts``, ``reader`` and ``writer`` use, ``share`` and ``merge`` divide them."""
