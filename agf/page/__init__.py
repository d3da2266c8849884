"""The interactive page: results in one HTML file that opens without a network. Read `report`."""
