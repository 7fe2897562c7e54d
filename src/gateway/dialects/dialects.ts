import { CHAT } from './chat/chat.js';
import type { Dialect, DialectName } from './dialect.js';
import { RESPONSES } from './responses/responses.js';

export const DIALECTS: Readonly<Record<DialectName, Dialect>> = {
  'chat/completions': CHAT,
  responses: RESPONSES,
};

/** null: nobody is answered there. */
export const dialectAt = (path: string): Dialect | null =>
  Object.values(DIALECTS).find(({ name }) => path === `/v1/${name}`) ?? null;
