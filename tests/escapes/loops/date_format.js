// {"timeout": 0.15, "memory": 160, "expect": {"status": "Failed", "error_type": "RuntimeTimeout"}}
for (;;) new Intl.DateTimeFormat('en', {dateStyle: 'full', timeZone: 'Asia/Tokyo'}).format(0)
