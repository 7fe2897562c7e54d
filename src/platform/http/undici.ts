import { createRequire } from 'node:module';
import type * as Undici from 'undici';

const require = createRequire(import.meta.url);

/** Loaded at the first request: commands that only read settings never need it. */
export const undici = (): typeof Undici => require('undici') as typeof Undici;
