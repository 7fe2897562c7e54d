import { createRequire } from 'node:module';
import type * as Undici from 'undici';

const require = createRequire(import.meta.url);

/** Loaded by whoever first speaks HTTP: settings, which every command reads, name clients and need none. */
export const undici = (): typeof Undici => require('undici') as typeof Undici;
