"""Cards in this computer: ``xdma`` drives one through the nodes of Linux' XDMA driver, ``pci`` finds it again."""
