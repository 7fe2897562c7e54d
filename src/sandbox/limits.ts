/** Limits of a snippet's interpreter and all that it starts, in milliseconds and bytes. */
export interface Limits {
  timeout_ms: number;
  cpu_ms: number;
  memory: number;
  processes: number;
  disk: number;
  max_output: number;
}
