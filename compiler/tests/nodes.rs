//! Nodes leave the table when their last owner drops them. In a process of its own, because it counts all nodes.

use warpweft_compiler::UOp;

#[test]
fn dropped_graphs_leave_nothing_in_the_table() {
    let before = UOp::live_nodes();
    for _ in 0..3 {
        let mut node = UOp::variable("x", 0, 9);
        for step in 0..1000 {
            node = (&node + step).max(3);
        }
        assert!(UOp::live_nodes() >= before + 2000);
        drop(node);
        assert_eq!(UOp::live_nodes(), before, "operands of dropped nodes are still listed");
    }
}
