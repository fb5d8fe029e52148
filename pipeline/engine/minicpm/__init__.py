"""The native adapter: MiniCPM-o 4.5 through its official duplex implementation."""
