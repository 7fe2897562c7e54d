import { createRequire } from 'node:module';
import type Pg from 'pg';

const require = createRequire(import.meta.url);

/** Loaded with the first database: most commands open none. */
export const driver = (): typeof Pg => require('pg') as typeof Pg;
