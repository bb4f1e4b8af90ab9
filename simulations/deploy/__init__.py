"""`fedsuite deploy`: certificates, keys and folders of a deployment, and Flower's programs run from them."""
