import { createHmac, timingSafeEqual } from 'node:crypto';

/**
 * The key is the address of a life of a rollout: any worker can check it, and none stores it. It is valid as long as
 * the journal's last `life` line has this life and this writer.
 */
export interface Address {
  rollout_id: string;
  life: number;
  /** The writer of the `life` line: lives of one number that two workers began have keys of their own. */
  writer: string;
}

const VERSION = 'dr1';
const SIGNATURE_BYTES = 16;
const SIGNATURE_LENGTH = Math.ceil((SIGNATURE_BYTES * 8) / 6);
/** Longer ones are no keys, and are not looked at. */
const MOST_LENGTH = 2048;
const LIFE = /^[1-9]\d{0,8}$/;

/** `dr1.<rollout>.<life>.<writer>.<signature>`, in characters that headers and paths take as they are. */
export function keyOf({ rollout_id, life, writer }: Address, secret: string): string {
  const signed = [VERSION, base64url(rollout_id), String(life), base64url(writer)].join('.');
  return `${signed}.${signatureOf(signed, secret).toString('base64url')}`;
}

/** null: it is no key of this secret. */
export function addressIn(key: string, secret: string): Address | null {
  if (key.length > MOST_LENGTH) return null;
  const [version, rollout = '', life = '', writer = '', signature = '', more] = key.split('.');
  const signed = [version, rollout, life, writer].join('.');
  const expected = signatureOf(signed, secret);
  const given = Buffer.from(signature, 'base64url');
  const isSigned = given.length === expected.length && timingSafeEqual(given, expected);
  if (!isSigned || more !== undefined || version !== VERSION || !LIFE.test(life)) return null;
  // Base64 has several forms of the same bytes, of which one is ours.
  if (given.toString('base64url') !== signature) return null;
  return { rollout_id: textOf(rollout), life: Number(life), writer: textOf(writer) };
}

const base64url = (text: string): string => Buffer.from(text).toString('base64url');
const textOf = (text: string): string => Buffer.from(text, 'base64url').toString();

const signatureOf = (text: string, secret: string): Buffer =>
  createHmac('sha256', secret).update(text).digest().subarray(0, SIGNATURE_BYTES);

type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** A request's key and its path without it. */
export interface Keyed {
  key: string | null;
  path: string;
  /** It came as NeMo Gym's agents ask their model server. */
  of_gym: boolean;
}

const IN_PATH = /^\/k\/([^/]+)(\/.*)?$/;
/** NeMo Gym's own: a run's id, which is our key, and a segment where it looks for tokens, too. */
const OF_GYM = /^\/ng-rollout\/([^/]+)(?:\/training-token-capture(?=\/|$))?(\/.*)?$/;
/** NeMo Gym counts its attempts behind the id. A signature may end like that, but has one length. */
const ATTEMPT = new RegExp(`^(.*\\.[\\w-]{${SIGNATURE_LENGTH}})-a\\d+$`);

/**
 * Where clients put a key: `Authorization: Bearer`, `x-api-key`, or the path (`/k/<key>/…`; `/ng-rollout/<key>/…` as
 * NeMo Gym has it). A key in the path comes first: redirects lead there, and clients drop or keep their headers.
 */
export function keyIn(path: string, headers: Headers): Keyed {
  const [, of_gym, behind = '/'] = OF_GYM.exec(path) ?? [];
  if (of_gym !== undefined)
    return { key: of_gym.replace(ATTEMPT, '$1'), path: behind, of_gym: true };
  const [, key, rest = '/'] = IN_PATH.exec(path) ?? [];
  if (key !== undefined) return { key, path: rest, of_gym: false };
  const bearer = /^bearer +(\S+)$/i.exec(first(headers['authorization']))?.[1];
  return { key: bearer ?? (first(headers['x-api-key']) || null), path, of_gym: false };
}

const first = (value: string | string[] | undefined): string =>
  (Array.isArray(value) ? value[0] : value)?.trim() ?? '';
