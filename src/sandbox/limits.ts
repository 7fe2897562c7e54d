/** What a snippet's interpreter and what it starts may take, in milliseconds and bytes. */
export interface Limits {
  timeout_ms: number;
  cpu_ms: number;
  memory: number;
  processes: number;
  disk: number;
  max_output: number;
}
