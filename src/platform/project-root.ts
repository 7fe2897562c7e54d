import { fileURLToPath } from 'node:url';

/** Of this project, from `src/local` as from `dist/local`. */
export const PROJECT_ROOT = fileURLToPath(new URL('../../', import.meta.url));
