Deno.readTextFileSync('/etc/passwd')
