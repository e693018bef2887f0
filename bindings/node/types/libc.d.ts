/**
 * True if a program of 64 bits runs with musl, by the dynamic linker that its ELF file names. `process.report` would say so too, but looks up
 * the addresses of all open sockets, and not every runtime has it.
 * @param {string} program
 * @returns {boolean}
 */
export function isMusl(program: string): boolean;
