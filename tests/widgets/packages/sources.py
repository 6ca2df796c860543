"""Sources that several tests share."""

SHOW = "import x from {!r};\nexport default () => <p>{{JSON.stringify(x)}}</p>"
