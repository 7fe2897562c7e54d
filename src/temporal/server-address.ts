import { describeError } from '../platform/errors.js';
import type { Dialled } from './server-tls.js';
import { AUTHORITY, lookAtServer } from './server-tls.js';

/** The setting that counts for a server's address where nothing else is known. */
export const ADDRESS_VARIABLE = 'TEMPORAL_ADDRESS';

/**
 * No connection goes through a proxy: not those of workers, to engines, of Python. Only gRPC for Node reads variables
 * such as https_proxy, also for servers of this machine.
 */
export const DIRECT_CHANNEL = { 'grpc.enable_http_proxy': 0 };

/** What the SDK says of an address that it cannot read. */
const MALFORMED = /^Invalid address/;

/** What a server, or what is before it, answers where it does not accept a key. */
const REFUSED_KEY =
  /unauthenticated|permission.?denied|valid authentication credentials|does not have permission/i;

/** What a worker's client says of a server's certificate. */
const REFUSED_CERTIFICATE = /InvalidCertificate|peer certificate/;

/** Why a Temporal server is not reached, and the next step. */
export interface Unreached {
  address: string;
  what: string;
  remedy: string;
  /** Waiting does not mend it: the server is there, or never can be. */
  isFinal: boolean;
}

/** `error`: of connecting; `setting`: the one that counts for the address. */
export async function whyUnreached(
  error: unknown,
  { setting, ...dialled }: Dialled & { setting: string },
): Promise<Unreached> {
  const { address } = dialled;
  const said = describeError(error);
  const final = (what: string, remedy: string): Unreached => ({
    address,
    what,
    remedy,
    isFinal: true,
  });
  if (MALFORMED.test(said))
    return final(said, `write host:port, without http://, as in 127.0.0.1:7233, in ${setting}`);
  if (REFUSED_KEY.test(said))
    return final(said, 'name a key that it accepts in TEMPORAL_API_KEY, or in temporal.toml');
  // If the look fails, the client's own words are shown.
  const found = await lookAtServer(dialled).catch(() => null);
  // An authority that this process knows, and the client does not: a worker knows those of its system alone.
  if (found === null && REFUSED_CERTIFICATE.test(said))
    return final(said, `install the system's authorities (ca-certificates), or ${AUTHORITY}`);
  const start = `start one (temporal-rollout up), or name it in ${setting}`;
  if (found === null) return { address, what: said, remedy: start, isFinal: false };
  return { address, what: found.what, remedy: found.remedy ?? start, isFinal: found.isFinal };
}

/** The error of a connection that failed for good. */
export const unreached = ({ address, what, remedy, isFinal }: Unreached): Error =>
  isFinal
    ? new Error(`no connection to the Temporal server at ${address}: ${what}; ${remedy}`)
    : new Error(`no Temporal server at ${address}; ${remedy}`, { cause: new Error(what) });
