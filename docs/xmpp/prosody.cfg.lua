-- For agents alone: clients with an account, over TLS, and nobody else.
data_path = "/var/lib/prosody"
certificates = "/etc/prosody/certs"
-- Inside the container every interface; the compose file publishes the port on loopback only.
interfaces = { "*" }
c2s_ports = { 5222 }
c2s_direct_tls_ports = {}
modules_enabled = { "roster"; "saslauth"; "tls"; "ping" }
modules_disabled = { "s2s"; "s2s_auth_certs"; "http" }
allow_registration = false
c2s_require_encryption = true
-- A message may carry a whole Q-table.
c2s_stanza_size_limit = 4194304
authentication = "internal_hashed"
log = { info = "*console" }
VirtualHost "localhost"
	ssl = { key = "/etc/prosody/certs/localhost.key"; certificate = "/etc/prosody/certs/localhost.crt" }
