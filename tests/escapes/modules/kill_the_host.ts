export default () => { process.kill(@HOST, 'SIGTERM'); return 'sent' }
