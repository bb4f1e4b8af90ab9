"""What houses of a FedVLN run give away of their views: what an audit's attack reads, and what it is held against."""
