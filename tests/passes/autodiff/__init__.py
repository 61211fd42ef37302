"""Where the limits of the specification's chapter 05, section 8, are shown to be lifted.

R1  wrt after passes that renumber     test_transforms: wrt_means_the_same_leaf_after_a_fused_op
R2  multi-axis reductions              test_op_rules: shape and reduction cases; random programs
R3  fused ops inside fused ops, bodies test_checkpoint: nested; test_transforms: fused op
R4  constants in F32 inside F64        every case runs in f64; test_conventions: dtype_of_its_primal
R5  a second input named d_output      test_transforms: first_free_name
R6  ties, bool masks                   test_conventions: split_ties; test_elementwise_rules: kinks
R7  products and powers at zero        test_conventions: product, power; kinks
R8  gather and scatter of any rank     test_op_rules: indexing cases; test_conventions: embedding
R9  rms_norm's power of q              test_op_rules: norm cases
R10 scale, softcap, bias, masked rows  test_op_rules: attention; test_conventions: hidden_scores
R12 dot_general                        test_op_rules: linalg cases
R13 axis of norms, softmax, cumsum     test_op_rules: norm and reduction cases
R16 silent drops: tables of rope       test_op_rules: rope; test_derived_rules: missing_rule
R17 complex numbers                    test_conventions: complex cases
R22 grad keeps aux; rank of ub; rules  test_transforms: gradients_alone, only_on_the_way_to_wrt
R23 exact tan, gelu, abs at zero       test_elementwise_rules; test_against_jax
J1  tangent of one operand             test_transforms: shape_of_the_broadcast_result
J2  norms, attention, rope, extrema    first-order cases against differences
J3  forward mode over any op           test_every_op; second-order cases

R11, R14, R15, R18 to R21 concern ops of other families.
"""
