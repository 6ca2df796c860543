// {"expect": {"status": "Failed", "error_type": "ReferenceError"}}
return await delete_everything()
