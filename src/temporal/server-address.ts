import { describeError } from '../platform/errors.js';

/** The setting that counts for a server's address where nothing else is known. */
export const ADDRESS_VARIABLE = 'TEMPORAL_ADDRESS';

/**
 * No connection goes through a proxy: not those of workers, to engines, of Python. Only gRPC for Node reads variables
 * such as https_proxy, also for servers of this machine.
 */
export const DIRECT_CHANNEL = { 'grpc.enable_http_proxy': 0 };

/** What the SDK says of an address that it cannot read. */
const MALFORMED = /^Invalid address/;

/** What to do about an error of connecting. `setting`: the one that counts for the address. */
export function addressRemedy(said: string, setting: string): string {
  if (MALFORMED.test(said))
    return `write host:port, without http://, as in 127.0.0.1:7233, in ${setting}`;
  if (/certificate/i.test(said))
    return 'name the file of the authority that signed its certificate in TEMPORAL_TLS_SERVER_CA_CERT_PATH, or in temporal.toml';
  if (/wrong version number/i.test(said))
    return `it speaks no TLS: set TEMPORAL_TLS=false, or name another one in ${setting}`;
  return `start one (temporal-rollout up), or name it in ${setting}`;
}

/** The error of a connection that failed for good. */
export const noServer = (
  cause: unknown,
  { address, setting }: { address: string; setting: string },
): Error =>
  new Error(`no Temporal server at ${address}; ${addressRemedy(describeError(cause), setting)}`, {
    cause,
  });
