"""The cycle model beside the Verilog: begin with ``compare``; ``configurations`` has what is compared."""
