import { ScriptError } from './scripts.js';

/** One turn of one rollout, as requests name it. */
export interface TurnAddress {
  batch_id: string;
  row: number;
  repeat: number;
  turn: number;
}

export const rolloutIdOf = ({ batch_id, row, repeat }: TurnAddress): string =>
  `${batch_id}/${row}-${repeat}`;

/** `X-Request-Id` is `<rollout_id>.<turn>.<writer>`, beside `X-Session-ID: <rollout_id>`. */
export function fromRequestId(
  requestId: string | undefined,
  sessionId: string | undefined,
): TurnAddress {
  const address = parse(requestId, /^(.+)\/(\d+)-(\d+)\.(\d+)\.[^./]+$/);
  if (address === null) throw new ScriptError(`X-Request-Id is ${requestId ?? 'missing'}`);
  if (sessionId === rolloutIdOf(address)) return address;
  throw new ScriptError(`X-Session-ID is ${sessionId ?? 'missing'}, X-Request-Id ${requestId}`);
}

/** `Idempotency-Key` is `<rollout_id>/<turn>`. */
export function fromIdempotencyKey(key: string | undefined): TurnAddress {
  const address = parse(key, /^(.+)\/(\d+)-(\d+)\/(\d+)$/);
  if (address === null) throw new ScriptError(`Idempotency-Key is ${key ?? 'missing'}`);
  return address;
}

function parse(text: string | undefined, pattern: RegExp): TurnAddress | null {
  const match = pattern.exec(text ?? '');
  if (match === null) return null;
  const [, batch_id = '', row, repeat, turn] = match;
  return { batch_id, row: Number(row), repeat: Number(repeat), turn: Number(turn) };
}
