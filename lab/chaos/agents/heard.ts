import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';

/** What agents wrote down of what they got, one file for each life. */
export interface Heard {
  rollout_id: string;
  life: number;
  pid: number;
  tries: readonly HeardTry[];
}

/** One request of an agent. */
export interface HeardTry {
  /** Which of its requests, and how often it had been asked before. */
  name: string;
  number: number;
  stream: boolean;
  /** null: no answer came. */
  status: number | null;
  /** Bytes as characters, without signs of life. */
  bytes: string;
  /** The agent used it. */
  whole: boolean;
}

interface Line {
  asks?: string;
  of?: string;
  number: number;
  stream?: boolean;
  status?: number;
  part?: string;
  whole?: boolean;
}

export async function readHeard(folder: string): Promise<Heard[]> {
  const names = await readdir(folder).catch(() => []);
  return await Promise.all(
    names.map(async (name) => {
      const [rollout = '', life = '', , pid = ''] = name.split('.');
      const rollout_id = Buffer.from(rollout, 'base64url').toString();
      const text = await readFile(path.join(folder, name), 'utf8');
      return { rollout_id, life: Number(life), pid: Number(pid), tries: triesIn(text) };
    }),
  );
}

/** A line without its end was cut by a kill. */
export function triesIn(text: string): HeardTry[] {
  const tries = new Map<string, HeardTry>();
  for (const one of text.split('\n').slice(0, -1)) {
    const { asks, of, number, stream = false, status, part = '', whole } = JSON.parse(one) as Line;
    const name = asks ?? of ?? '';
    const key = `${name} ${number}`;
    if (asks !== undefined)
      tries.set(key, { name, number, stream, status: null, bytes: '', whole: false });
    const heard = tries.get(key);
    if (heard === undefined) continue;
    heard.status = status ?? heard.status;
    heard.bytes += part;
    heard.whole ||= whole === true;
  }
  return Array.from(tries.values(), (heard) => ({ ...heard, bytes: saidBytes(heard) }));
}

const saidBytes = ({ stream, bytes }: Pick<HeardTry, 'stream' | 'bytes'>): string =>
  stream ? withoutError(bytes.replaceAll(/^: *(?:\n|$)/gm, '')) : bytes;

/** A stream that breaks off for a reason says it: no part of an answer. */
function withoutError(bytes: string): string {
  const at = bytes.lastIndexOf('data: {"error":');
  return at === -1 ? bytes : bytes.slice(0, at);
}
