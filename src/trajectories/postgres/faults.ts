import { driver } from './driver.js';

/** Errors of PostgreSQL and its connections: whether they are temporary, and what helps. */

export const MIGRATE = 'run temporal-rollout store migrate';

/** SQLSTATEs of connection exceptions, shutdown and start, exhausted resources, deadlocks, and read-only servers. */
const PASSING_STATES = /^(08(?!P01)...|57P0[1-3]|53...|40001|40P01|25006|58030)$/;
/** 08P01 is a mistake in the protocol, except for what PgBouncer says of its server and of its own load. */
const PASSING_VIOLATIONS =
  /query_wait_timeout|server login (has been )?fail|server conn crashed|server closed|no more connections|shutting down/i;
/** Codes of sockets. */
const PASSING_CODES =
  /^(ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/;
/** Messages of the driver, which has no codes. */
const PASSING_TEXTS =
  /^(Connection terminated|Query read timeout|timeout exceeded when trying to connect|timeout expired|Client has encountered a connection error|Client was closed)/;

export function isPassing(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = codeOf(error);
  if (code === null) return PASSING_TEXTS.test(error.message);
  if (code === '08P01') return PASSING_VIOLATIONS.test(error.message);
  return PASSING_STATES.test(code) || PASSING_CODES.test(code);
}

const codeOf = (error: Error): string | null =>
  'code' in error && typeof error.code === 'string' ? error.code : null;

const NAME_AUTHORITY =
  'name the authority that signed the server’s certificate as sslrootcert in the URL';

export const REACH = 'see that the server runs, and that host and port in the URL lead to it';
export const NAME_HOST = 'see that the host in the URL has an address';

const SHARED =
  'a pooler breaks prepared statements: set it to pool by session, or name the database itself in the URL';

const REMEDIES: Record<string, string> = {
  '08P01':
    'a pooler in between changes what this client sends: set it to pool by session, or name the database itself in the URL',
  '26000': SHARED,
  '42P05': SHARED,
  '28P01': 'check user and password in the URL that store.url_env or store.url_file names',
  '28000': 'check user, pg_hba.conf and TLS (sslmode in the URL)',
  '25006':
    'lead host and port in the URL to the primary, and leave its default_transaction_read_only off',
  '3D000': 'create the database, or name another in the URL',
  '3F000': MIGRATE,
  '42P01': MIGRATE,
  '42703': MIGRATE,
  '42501': 'grant the role the rights on the store’s schema and its tables',
  '53100': 'make room on the database’s disk',
  '53300': 'raise max_connections of the server or lower store.max_connections of the workers',
  '57014': 'the server is overloaded, or another transaction holds the row',
  ENOENT: 'sslrootcert, sslcert and sslkey in the URL name files that the worker can read',
  EACCES: 'sslrootcert, sslcert and sslkey in the URL name files that the worker can read',
  ECONNREFUSED: REACH,
  ECONNRESET: REACH,
  EPIPE: REACH,
  ETIMEDOUT: REACH,
  EHOSTUNREACH: REACH,
  ENETUNREACH: REACH,
  ENOTFOUND: NAME_HOST,
  EAI_AGAIN: NAME_HOST,
  CERT_HAS_EXPIRED: 'give the server a new certificate',
  CERT_SIGNATURE_FAILURE: NAME_AUTHORITY,
  DEPTH_ZERO_SELF_SIGNED_CERT: NAME_AUTHORITY,
  ERR_TLS_CERT_ALTNAME_INVALID: 'connect to a name that is in the server’s certificate',
  SELF_SIGNED_CERT_IN_CHAIN: NAME_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: NAME_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: NAME_AUTHORITY,
};
/** For errors of the driver, which have no code. */
const NO_TLS = 'The server does not support SSL connections';

/** `: …` or nothing. */
export function remedyFor(error: unknown): string {
  if (!(error instanceof Error)) return '';
  if (error.message === NO_TLS)
    return ': switch ssl on in the server, or leave sslmode out of the URL';
  const code = codeOf(error);
  const ofDriver = PASSING_TEXTS.test(error.message) ? REACH : undefined;
  const remedy = code === null ? ofDriver : REMEDIES[code];
  return remedy === undefined ? '' : `: ${remedy}`;
}

/** The server refused the content of the statement, so another statement may succeed. */
export const isOfStatement = (error: unknown): boolean =>
  error instanceof driver().DatabaseError && /^(22...|23514|54...|XX000)$/.test(error.code ?? '');
